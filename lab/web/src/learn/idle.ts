/** Runs something once the page has come to rest; the function that comes back calls it off. */
export function whenIdle(work: () => void): () => void {
  if (typeof requestIdleCallback === "function") {
    const asked = requestIdleCallback(work, { timeout: 2000 });
    return () => cancelIdleCallback(asked);
  }
  const timer = setTimeout(work, 200); // Safari knows no requestIdleCallback
  return () => clearTimeout(timer);
}
