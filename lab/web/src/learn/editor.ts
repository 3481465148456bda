/** The code editor: CodeMirror in a shadow root, where its styles are adopted sheets, which the site's policy allows. */
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

export interface Wishes {
  text: string;
  label: string;
  onchange: (text: string) => void;
  /** Ctrl or ⌘ with Enter; with Shift too for the other. */
  onrun: () => void;
  oncheck: () => void;
}

const fault = StateEffect.define<number | null>();

/** The line that failed, until it is changed. */
const faultLine = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, change) {
    for (const effect of change.effects) {
      if (!effect.is(fault)) continue;
      if (effect.value === null || effect.value > change.state.doc.lines) return Decoration.none;
      return Decoration.set(Decoration.line({ class: "cm-fault" }).range(change.state.doc.line(Math.max(1, effect.value)).from));
    }
    return change.docChanged ? Decoration.none : marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword, tags.definitionKeyword, tags.moduleKeyword], color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--value)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--key)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
  { tag: tags.function(tags.definition(tags.variableName)), fontWeight: "650" },
]);

const theme = EditorView.theme({
  "&": { backgroundColor: "var(--sunken)", color: "var(--ink)", fontSize: "0.95rem", borderRadius: "var(--corner)", border: "1px solid var(--line-strong)" },
  "&.cm-focused": { outline: "3px solid var(--accent)", outlineOffset: "2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", fontVariantLigatures: "none", minHeight: "12rem", maxHeight: "36rem" },
  ".cm-content": { padding: "0.7rem 0", caretColor: "var(--ink)" },
  ".cm-line": { padding: "0 0.9rem 0 0.6rem" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--quiet)", border: "0", paddingLeft: "0.3rem" },
  ".cm-activeLine": { backgroundColor: "color-mix(in oklab, var(--accent) 7%, transparent)" },
  "&:not(.cm-focused) .cm-activeLine": { backgroundColor: "transparent" },
  ".cm-fault, &:not(.cm-focused) .cm-fault": { backgroundColor: "var(--bad-soft)", boxShadow: "inset 3px 0 0 var(--bad)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "1px solid var(--accent)" },
});

/** Typing over a selection, done here: left to it, Chromium carries the look of the old text over in inline styles. */
const typeOver = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (event.inputType !== "insertText" || event.data === null || view.state.selection.main.empty) return false;
    event.preventDefault();
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

/** Opens an editor in `host`, which becomes the host of a shadow root. */
export function openEditor(host: HTMLElement, { text, label, onchange, onrun, oncheck }: Wishes) {
  const root = host.attachShadow({ mode: "open" });
  const does = (action: () => void) => () => {
    action();
    return true;
  };
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        keymap.of([
          { key: "Mod-Enter", run: does(onrun), shift: does(oncheck) },
          { key: "Shift-Mod-Enter", run: does(oncheck) },
          indentWithTab,
          ...defaultKeymap,
          ...historyKeymap,
        ]),
        history(),
        lineNumbers(),
        highlightActiveLine(),
        bracketMatching(),
        indentOnInput(),
        indentUnit.of("    "),
        python(),
        syntaxHighlighting(colours),
        theme,
        faultLine,
        typeOver,
        EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0", autocapitalize: "off", autocorrect: "off" }),
        EditorView.updateListener.of((update) => update.docChanged && onchange(update.state.doc.toString())),
      ],
    }),
  });
  return {
    replace(text: string): void {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    /** Marks the line that failed; null takes the mark away. */
    mark(line: number | null): void {
      view.dispatch({ effects: fault.of(line) });
    },
    /** Puts the cursor at the start of a line. */
    goTo(line: number): void {
      const at = view.state.doc.line(Math.min(Math.max(1, line), view.state.doc.lines)).from;
      view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
      view.focus();
    },
    close: (): void => view.destroy(),
  };
}
