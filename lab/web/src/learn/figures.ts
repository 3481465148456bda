/** The figures that lessons name, each loaded when its lesson is. */
import type { Component } from "svelte";

const figures = import.meta.glob<{ default: Component }>("../figures/*.svelte");

/** The figure of a name; nothing where the lesson has none. */
export async function figure(name: string): Promise<Component | undefined> {
  return (await figures[`../figures/${name}.svelte`]?.())?.default;
}
