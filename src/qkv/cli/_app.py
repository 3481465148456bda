"""The program: its verbs, its version, and how every error becomes one line and an exit code."""

import sys
from typing import Annotated

import typer

import qkv
from qkv.cli import _terminal, cost, experiment, explain, heads, lab, look, toy
from qkv.cli._errors import Failure
from qkv.errors import QKVError

VERBS = {"look", "heads", "toy", "explain", "experiment", "cost", "lab"}
# typer carries a click of its own in some versions and uses the installed one in others; this is the class of either.
ClickUsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# Further words are let through, so that `look` can say that TEXT wants quotes.
app.command(epilog=look.EXAMPLES, context_settings={"allow_extra_args": True})(look.look)
app.command(epilog=heads.EXAMPLES, context_settings={"allow_extra_args": True})(heads.heads)
app.command(epilog=cost.EXAMPLES)(cost.cost)
app.command(epilog=toy.EXAMPLES)(toy.toy)
app.command(epilog=explain.EXAMPLES, context_settings={"allow_extra_args": True})(explain.explain)
app.command(epilog=experiment.EXAMPLES)(experiment.experiment)
app.command(epilog=lab.EXAMPLES)(lab.lab)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Exact attention, with the weights still in your hands."""
    if version:
        _terminal.write(f"qkv {qkv.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        _terminal.write(context.get_help())


def run(words: list[str]) -> int:
    """Run one command and return its exit code; what was foreseen to go wrong is one line on stderr."""
    verb = next((word for word in words if not word.startswith("-")), "")
    name = f"qkv {verb}" if verb in VERBS else "qkv"
    try:
        return app(words, prog_name="qkv", standalone_mode=False) or 0
    except (Failure, QKVError, ClickUsageError) as error:
        if isinstance(error, ClickUsageError):
            message, code = f"{error.format_message().rstrip('.')}; see {name} --help", 2  # type: ignore[attr-defined]
        else:
            message, code = str(error), getattr(error, "code", 1)
        print(f"{name}: {' '.join(message.split())}", file=sys.stderr)
        return code
    except (typer.Abort, KeyboardInterrupt):
        return 130
