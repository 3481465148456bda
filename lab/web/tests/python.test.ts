import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Python, type Status } from "../src/python/client.ts";
import type { FromWorker, ToWorker } from "../src/python/messages.ts";

/** A worker that does what the test says. */
class Fake {
  sent: ToWorker[] = [];
  ended = false;
  onmessage: ((event: MessageEvent<FromWorker>) => void) | null = null;
  onerror: ((event: unknown) => void) | null = null;
  postMessage = (message: ToWorker): void => void this.sent.push(message);
  terminate = (): void => void (this.ended = true);
  says = (message: FromWorker): void => this.onmessage?.({ data: message } as MessageEvent<FromWorker>);
  jobs = () => this.sent.flatMap((message) => (message.kind === "begin" ? [] : [message]));
  /** The byte that an interrupt is written to. */
  flag = (): number | undefined => {
    const [begin] = this.sent;
    return begin.kind === "begin" && begin.interrupt ? new Uint8Array(begin.interrupt)[0] : undefined;
  };
}

let workers: Fake[];
let heard: Status[];

function python({ isolated = true, roomy = false } = {}): Python {
  const open = () => {
    workers.push(new Fake());
    return workers[workers.length - 1] as unknown as Worker;
  };
  return new Python({ base: "http://x/pyodide/", open, isolated, roomy, hear: (status) => heard.push(status) });
}

/** How a job ended, or undefined while it has not. */
function watch<T>(job: Promise<T>): () => Promise<T | undefined> {
  let ended: T | undefined;
  void job.then((how) => (ended = how));
  return async () => {
    await Promise.resolve();
    await Promise.resolve();
    return ended;
  };
}

const nothing = () => undefined;

beforeEach(() => {
  vi.useFakeTimers();
  [workers, heard] = [[], []];
});
afterEach(() => vi.useRealTimers());

describe("a job", () => {
  it("waits for Python, then runs, prints and ends", async () => {
    const it = python();
    const printed: string[] = [];
    const ended = watch(it.run("print(1)", (text) => printed.push(text)));
    const [worker] = workers;
    expect(worker.jobs()).toEqual([]);
    worker.says({ kind: "progress", share: 0.5, what: "Fetching" });
    worker.says({ kind: "ready" });
    expect(worker.jobs()).toEqual([{ kind: "run", id: 1, code: "print(1)" }]);
    worker.says({ kind: "output", id: 1, text: "1\n" });
    worker.says({ kind: "done", id: 1, result: { error: null } });
    expect(await ended()).toMatchObject({ kind: "done", result: { error: null } });
    expect(printed).toEqual(["1\n"]);
    expect(heard.map(({ phase }) => phase)).toEqual(["loading", "loading", "ready"]);
  });
  it("is one at a time", () => {
    const it = python();
    void it.run("1", nothing);
    expect(() => it.run("2", nothing)).toThrow("One job at a time.");
  });
  it("that is over says nothing more", async () => {
    const it = python();
    const printed: string[] = [];
    void it.run("1", nothing);
    workers[0].says({ kind: "ready" });
    workers[0].says({ kind: "done", id: 1, result: { error: null } });
    void it.run("2", (text) => printed.push(text));
    workers[0].says({ kind: "output", id: 1, text: "late" });
    expect(printed).toEqual([]);
  });
});

describe("stop", () => {
  async function running(options = {}) {
    const it = python(options);
    it.start();
    workers[0].says({ kind: "ready" });
    if ("roomy" in options) {
      vi.advanceTimersByTime(3000);
      workers[1].says({ kind: "ready" });
    }
    return { it, ended: watch(it.run("while True: pass", nothing)) };
  }
  it("interrupts, and the worker lives on", async () => {
    const { it, ended } = await running();
    expect(workers[0].flag()).toBe(0);
    it.stop();
    expect(workers[0].flag()).toBe(2);
    workers[0].says({ kind: "interrupted", id: 1 });
    expect(await ended()).toEqual({ kind: "stopped", restarts: false });
    vi.advanceTimersByTime(5000);
    expect(workers[0].ended).toBe(false);
    void it.run("1", nothing);
    expect(workers[0].flag()).toBe(0);
    expect(workers[0].jobs()).toHaveLength(2);
  });
  it("ends the worker after a second that hears no interrupt", async () => {
    const { it, ended } = await running();
    it.stop();
    vi.advanceTimersByTime(999);
    expect(await ended()).toBeUndefined();
    vi.advanceTimersByTime(1);
    expect(await ended()).toEqual({ kind: "stopped", restarts: true });
    expect(workers.map(({ ended }) => ended)).toEqual([true, false]);
    const next = watch(it.run("2", nothing));
    workers[1].says({ kind: "ready" });
    workers[1].says({ kind: "done", id: 2, result: { error: null } });
    expect(await next()).toMatchObject({ kind: "done" });
  });
  it("goes on with the spare worker at once, and gets another", async () => {
    const { it, ended } = await running({ roomy: true });
    it.stop();
    vi.advanceTimersByTime(1000);
    expect(await ended()).toEqual({ kind: "stopped", restarts: false });
    void it.run("2", nothing);
    expect(workers[1].jobs()).toHaveLength(1);
    workers[1].says({ kind: "done", id: 2, result: { error: null } });
    vi.advanceTimersByTime(3000);
    expect(workers).toHaveLength(3);
  });
  it("ends the worker at once where memory can't be shared", async () => {
    const { it, ended } = await running({ isolated: false });
    it.stop();
    expect(await ended()).toEqual({ kind: "stopped", restarts: true });
    expect(workers[0].ended).toBe(true);
  });
  it("calls off a job that still waits for Python", async () => {
    const it = python();
    const ended = watch(it.run("1", nothing));
    it.stop();
    expect(await ended()).toEqual({ kind: "stopped", restarts: false });
    workers[0].says({ kind: "ready" });
    expect(workers[0].jobs()).toEqual([]);
  });
  it("does nothing when nothing runs", () => {
    const it = python();
    it.start();
    workers[0].says({ kind: "ready" });
    it.stop();
    expect(workers[0].flag()).toBe(0);
    expect(workers[0].ended).toBe(false);
  });
});

describe("a spare worker", () => {
  it("starts when Python is ready and idle, not before", () => {
    const it = python({ roomy: true });
    it.start();
    vi.advanceTimersByTime(60_000);
    expect(workers).toHaveLength(1);
    workers[0].says({ kind: "ready" });
    void it.run("1", nothing);
    vi.advanceTimersByTime(60_000);
    expect(workers).toHaveLength(1);
    workers[0].says({ kind: "done", id: 1, result: { error: null } });
    vi.advanceTimersByTime(3000);
    expect(workers).toHaveLength(2);
  });
  it("is not started where there is little memory", () => {
    const it = python();
    it.start();
    workers[0].says({ kind: "ready" });
    vi.advanceTimersByTime(60_000);
    expect(workers).toHaveLength(1);
  });
});

describe("a worker that breaks", () => {
  it("while loading fails the job, and start tries again", async () => {
    const it = python();
    const ended = watch(it.run("1", nothing));
    workers[0].says({ kind: "broken", what: "no wasm" });
    expect(await ended()).toEqual({ kind: "failed", what: "no wasm", restarts: false });
    expect(heard[heard.length - 1]).toMatchObject({ phase: "failed", what: "no wasm" });
    it.start();
    expect(workers).toHaveLength(2);
    expect(heard[heard.length - 1].phase).toBe("loading");
  });
  it("at work fails the job and is replaced", async () => {
    const it = python();
    const ended = watch(it.run("1", nothing));
    workers[0].says({ kind: "ready" });
    workers[0].says({ kind: "broken", what: "out of memory" });
    expect(await ended()).toEqual({ kind: "failed", what: "out of memory", restarts: true });
    expect(workers.map(({ ended }) => ended)).toEqual([true, false]);
  });
  it("that could not be loaded at all says so", () => {
    python().start();
    workers[0].onerror?.({ message: "" });
    expect(heard[heard.length - 1]).toMatchObject({ phase: "failed", what: "The worker could not be loaded." });
  });
});
