import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";
import { siteContent } from "./build/content.ts";
import { mathInMarkup } from "./build/math.js";
import { sitePages } from "./build/pages.ts";

export default defineConfig({
  plugins: [siteContent(), svelte({ configFile: false, preprocess: [mathInMarkup] }), sitePages()],
  resolve: { conditions: ["browser"] },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
});
