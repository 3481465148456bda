/** Python, away from the page: Pyodide with NumPy. One job at a time; no network from inside. */
import type { PyodideAPI } from "pyodide";
import { type Begin, type FromWorker, type Job, type Ran, type Report, type ToWorker, isRan, isReport } from "./messages.ts";
import start from "./start.py?raw";

const judge = import.meta.glob<string>("../../../src/qkv_lab/judge/*.py", { query: "?raw", import: "default", eager: true });

// What Pyodide's files weigh together; nothing but the progress bar depends on it.
const TOTAL_BYTES = 15_000_000;
const FETCHING = "Fetching Python and NumPy";
const MOST_OUTPUT = 20_000;
const NETWORK = ["fetch", "XMLHttpRequest", "WebSocket", "WebSocketStream", "WebTransport", "EventSource", "Worker", "importScripts", "indexedDB", "caches", "BroadcastChannel", "eval"];

/** The functions of start.py. */
interface Ways {
  run: (code: string) => string;
  check: (code: string, files: string, seed: number) => string;
}

const tell = (message: FromWorker): void => self.postMessage(message);
let ways: Ways | undefined;
let now = 0;
let room = 0;

/** Hands text on as it is printed, as far as there is room. */
function print(text: string): void {
  if (room < 0) return;
  const cut = text.length > room;
  tell({ kind: "output", id: now, text: cut ? `${text.slice(0, room)}\n… and more, which is left out\n` : text });
  room = cut ? -1 : room - text.length;
}

/** Tells of every file that has come. It looks on from outside: to read along would cost a quarter of the start. */
function watchFiles(base: string): PerformanceObserver {
  let bytes = 0;
  const observer = new PerformanceObserver((list) => {
    for (const file of list.getEntries()) if (file.name.startsWith(base)) bytes += (file as PerformanceResourceTiming).decodedBodySize;
    tell({ kind: "progress", share: Math.min(0.6, (0.6 * bytes) / TOTAL_BYTES), what: FETCHING });
  });
  observer.observe({ type: "resource", buffered: true });
  return observer;
}

/** Takes away what reaches the network, and what makes programs of text: where the server sends no policy with the worker,
 * nothing else would. It keeps honest code honest; a wall it is not. */
function cutOff(): void {
  for (const name of NETWORK)
    for (let place: object | null = self; place; place = Object.getPrototypeOf(place)) Reflect.deleteProperty(place, name);
  for (const made of [() => 0, async () => 0, function* () {}, async function* () {}])
    Object.defineProperty(Object.getPrototypeOf(made), "constructor", { value: undefined });
}

async function load({ base, interrupt }: Begin): Promise<Ways> {
  tell({ kind: "progress", share: 0, what: FETCHING });
  const observer = watchFiles(base);
  const { loadPyodide } = (await import(/* @vite-ignore */ `${base}pyodide.mjs`)) as typeof import("pyodide");
  const python: PyodideAPI = await loadPyodide({ indexURL: base, jsglobals: {}, stdout: () => undefined, stderr: () => undefined });
  tell({ kind: "progress", share: 0.75, what: "Unpacking NumPy" });
  await python.loadPackage("numpy", { messageCallback: () => undefined, errorCallback: (what) => { throw new Error(what); } });
  tell({ kind: "progress", share: 0.85, what: "Starting NumPy" });
  const decoder = new TextDecoder();
  const write = (bytes: Uint8Array): number => {
    print(decoder.decode(bytes, { stream: true }));
    return bytes.length;
  };
  python.setStdout({ write });
  python.setStderr({ write });
  python.setStdin({ error: true });
  python.FS.mkdirTree("/grader/judge");
  for (const [path, source] of Object.entries(judge)) python.FS.writeFile(`/grader/judge/${path.split("/").pop()}`, source);
  python.runPython(start);
  if (interrupt) python.setInterruptBuffer(new Uint8Array(interrupt));
  observer.disconnect();
  cutOff();
  return { run: python.globals.get("run"), check: python.globals.get("check") };
}

const interrupted = (error: unknown): boolean => error instanceof Error && "type" in error && error.type === "KeyboardInterrupt";

function result(ways: Ways, job: Job): Ran | Report {
  const told = job.kind === "run" ? { error: JSON.parse(ways.run(job.code)) } : JSON.parse(ways.check(job.code, JSON.stringify(job.files), job.seed));
  if (!(job.kind === "run" ? isRan : isReport)(told)) throw new Error("Its answer can't be read.");
  return told;
}

function work(job: Job): void {
  if (!ways) return;
  [now, room] = [job.id, MOST_OUTPUT];
  try {
    tell({ kind: "done", id: job.id, result: result(ways, job) });
  } catch (error) {
    if (interrupted(error)) tell({ kind: "interrupted", id: job.id });
    else tell({ kind: "broken", what: String(error) });
  }
}

self.addEventListener("message", async ({ data }: MessageEvent<ToWorker>) => {
  if (data.kind !== "begin") return work(data);
  try {
    ways = await load(data);
    tell({ kind: "ready" });
  } catch (error) {
    tell({ kind: "broken", what: String(error) });
  }
});
