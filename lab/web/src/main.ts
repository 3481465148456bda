/** Every page begins here: its HTML names the component that shows it, and only that one is loaded. */
import { mount, type Component } from "svelte";
import "./styles/site.css";
import Layout from "./parts/Layout.svelte";
import { restoreTheme } from "./state/theme.ts";

const views = import.meta.glob<{ default: Component<{ slug: string }> }>("./views/**/*.svelte");

restoreTheme();
const { view = "", slug = "" } = document.documentElement.dataset;
const { default: View } = await views[`./views/${view}.svelte`]();
mount(Layout, { target: document.getElementById("app")!, props: { View, slug } });
// An address may name a heading; when the browser looked for it, it was not there yet.
document.getElementById(location.hash.slice(1))?.scrollIntoView();
