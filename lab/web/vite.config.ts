import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { siteContent } from "./build/content.ts";
import { math } from "./build/math.js";
import { sitePages } from "./build/pages.ts";

export default defineConfig({
  base: "./",
  plugins: [math(), siteContent(), svelte(), sitePages()],
  build: {
    outDir: "../src/qkv_lab/site",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  worker: { format: "es" },
});
