/** The learner's code at work: what runs, what it printed, what came of it. */
import type { Ended, Python } from "../python/client.ts";
import type { Fault, Report } from "../python/messages.ts";

/** Seeds that a grader of NumPy takes. */
const seed = (): number => crypto.getRandomValues(new Uint32Array(1))[0];

export class Session {
  busy = $state<"run" | "check" | undefined>();
  output = $state("");
  /** One sentence on how things stand. */
  says = $state("");
  report = $state<Report | undefined>();
  fault = $state<Fault | undefined>();
  readonly #python: () => Python;
  readonly #loading: () => boolean;
  #printed = "";
  #frame = 0;

  constructor(python: () => Python, loading: () => boolean) {
    this.#python = python;
    this.#loading = loading;
  }

  /** Runs a program as it is. The line that failed comes back, or null. */
  async run(code: string): Promise<number | null> {
    if (!this.#begin("run")) return null;
    const ended = await this.#python().run(code, (text) => this.#print(text));
    if (ended.kind === "done") {
      const seconds = ended.seconds;
      this.fault = ended.result.error ?? undefined;
      if (this.fault) this.says = this.fault.line === null ? "It stopped with an error." : `It stopped with an error in line ${this.fault.line}.`;
      else if (this.#printed) this.says = `Ran in ${seconds < 1 ? seconds.toFixed(2) : seconds.toFixed(1)} s.`;
      else this.says = "It ran and printed nothing. Use print(…) to see values, or Check to have your functions tried.";
    }
    this.#end(ended);
    return this.fault?.line ?? null;
  }

  /** Has the functions tried on fresh inputs. The line that failed comes back, or null. */
  async check(code: string, files: Record<string, string>): Promise<number | null> {
    if (!this.#begin("check")) return null;
    const ended = await this.#python().judge(code, files, seed(), (text) => this.#print(text));
    if (ended.kind === "done") {
      const report = ended.result;
      this.report = report;
      if (report.output) this.#print(report.output);
      const passed = report.functions.filter((each) => each.ok).length;
      const all = report.functions.length;
      if (report.error) this.says = report.error.line === null ? "Your code stopped with an error." : `Your code stopped with an error in line ${report.error.line}.`;
      else if (report.ok) this.says = all === 1 ? "Your function passes." : `All ${all} functions pass.`;
      else this.says = `${passed} of ${all} functions ${passed === 1 ? "passes" : "pass"}.`;
    }
    this.#end(ended);
    return this.report?.error?.line ?? this.report?.functions.find((each) => each.failed?.line)?.failed?.line ?? null;
  }

  stop(): void {
    if (!this.busy) return;
    this.says = "Stopping…";
    this.#python().stop();
  }

  #begin(busy: "run" | "check"): boolean {
    if (this.busy) return false;
    this.busy = busy;
    this.output = this.#printed = "";
    this.report = this.fault = undefined;
    this.says = this.#loading() ? "Waiting for Python…" : busy === "run" ? "Running…" : "Checking…";
    return true;
  }

  #end(ended: Ended<unknown>): void {
    this.#flush();
    if (ended.kind === "stopped") this.says = ended.restarts ? "Stopped. Python starts again, which takes a few seconds." : "Stopped.";
    if (ended.kind === "failed") this.says = ended.restarts ? `Python broke down and starts again: ${ended.what}` : "Nothing ran: Python could not be loaded.";
    this.busy = undefined;
  }

  /** Text comes line by line, faster than a page can be drawn: it is shown once a frame. */
  #print(text: string): void {
    this.#printed += text;
    this.#frame ||= requestAnimationFrame(() => this.#flush());
  }

  #flush(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.output = this.#printed;
  }
}
