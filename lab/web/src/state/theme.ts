/** Light, dark, or as the system says; kept in the browser. */
export type Theme = "auto" | "light" | "dark";

const KEY = "qkv.theme";

export function restoreTheme(): Theme {
  const kept = localStorage.getItem(KEY);
  const theme: Theme = kept === "light" || kept === "dark" ? kept : "auto";
  document.documentElement.dataset.theme = theme;
  return theme;
}

export function chooseTheme(theme: Theme): void {
  if (theme === "auto") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
  document.documentElement.dataset.theme = theme;
}
