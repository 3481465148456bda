/** Maps of trained heads: recorded beside the pages, and computed by `qkv lab` where it serves them. */

/** A text as a model reads it. */
interface Text {
  model: string;
  title: string;
  causal: boolean;
  n_layers: number;
  n_heads: number;
  text: string;
  tokens: string[];
}

export interface Head {
  layer: number;
  head: number;
  /** What the head does, where that has a name. */
  pattern: { name: string; looks_at: string } | null;
  /** n rows of n weights. */
  weight: number[][];
  /** The same times the length of each value, ‖v_j W_O‖, as shares of their row. */
  value_weighted: number[][];
}

export interface Recorded extends Text {
  heads: Head[];
}

export type Trained = Text & Head;

/** What `maps/index.json` says of one recorded text. */
export interface Listed {
  file: string;
  model: string;
  title: string;
  text: string;
  n_layers: number;
  n_heads: number;
}

async function json(answer: Response): Promise<any> {
  const type = answer.headers.get("Content-Type") ?? "";
  const body = type.includes("json") ? await answer.json() : {};
  if (!answer.ok) throw new Error(body.error ?? `the server answered ${answer.status}`);
  return body;
}

export const listed = async (): Promise<Listed[]> => (await json(await fetch("./maps/index.json"))).sets;

export const recorded = async (file: string): Promise<Recorded> => json(await fetch(`./maps/${file}`));

/** One head of a recorded text. */
export function headOf({ heads, ...text }: Recorded, layer: number, head: number): Trained | undefined {
  const found = heads.find((each) => each.layer === layer && each.head === head);
  return found && { ...text, ...found };
}

/** One head over a text of one's own; only a running `qkv lab` answers. */
export async function computed(model: string, layer: number, head: number, text: string): Promise<Trained> {
  const answer = await fetch("./api/map", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ model, layer, head, text }),
  });
  if (answer.status === 404 || answer.status === 405 || answer.status === 501) {
    throw new Error("These pages were put here without a program behind them. Start qkv lab to map a text of your own.");
  }
  return json(answer);
}
