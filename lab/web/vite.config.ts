import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { siteContent } from "./build/content.ts";
import { math, mathInMarkup } from "./build/math.js";
import { sitePages } from "./build/pages.ts";

// svelte.config.js is for svelte-check: read from there, the formulas would keep their styles in another copy of math.js.
export default defineConfig({
  base: "./",
  plugins: [math(), siteContent(), svelte({ configFile: false, preprocess: [mathInMarkup] }), sitePages()],
  build: {
    outDir: "../src/qkv_lab/site",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rolldownOptions: { checks: { pluginTimings: false } }, // on a busy machine it warns of nothing else
  },
  worker: { format: "es" },
});
