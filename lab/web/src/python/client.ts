/** The page's side of Python: one job at a time, a stop that always stops, a spare worker kept warm. */
import type { Begin, FromWorker, Job, Ran, Report } from "./messages.ts";

/** How Python is, for the page to show. */
export interface Status {
  phase: "off" | "loading" | "ready" | "failed";
  /** How much is loaded, from 0 to 1. */
  share: number;
  what: string;
}

export type Ended<T> = { kind: "done"; result: T; seconds: number } | { kind: "stopped"; restarts: boolean } | { kind: "failed"; what: string; restarts: boolean };

type Port = Pick<Worker, "postMessage" | "terminate" | "onmessage" | "onerror">;

export interface Options {
  /** Where Pyodide's files lie. */
  base: string;
  open: () => Port;
  /** Whether memory can be shared, so that Python can be interrupted. */
  isolated: boolean;
  /** Whether there is memory for a second worker. */
  roomy: boolean;
  hear: (status: Status) => void;
}

// An interrupt that Python hears is heard within milliseconds; a loop that swallows it never hears it.
const PATIENCE_MS = 1000;
const IDLE_MS = 3000;

/** A worker, and what is known of it. */
class Seat {
  readonly port: Port;
  readonly #flag: Uint8Array | undefined;
  status: Status = { phase: "loading", share: 0, what: "Fetching Python and NumPy" };

  constructor({ open, base, isolated }: Options, hear: (seat: Seat, message: FromWorker) => void) {
    this.port = open();
    this.port.onmessage = ({ data }: MessageEvent<FromWorker>) => hear(this, data);
    this.port.onerror = (event) => hear(this, { kind: "broken", what: (event as ErrorEvent).message || "The worker could not be loaded." });
    const interrupt = isolated ? new SharedArrayBuffer(1) : undefined;
    this.#flag = interrupt && new Uint8Array(interrupt);
    this.port.postMessage({ kind: "begin", base, interrupt } satisfies Begin);
  }

  send(job: Job): void {
    if (this.#flag) this.#flag[0] = 0;
    this.port.postMessage(job);
  }

  /** Asks Python to stop, as Ctrl+C would; false where that can't be. */
  interrupt(): boolean {
    if (this.#flag) this.#flag[0] = 2; // SIGINT
    return this.#flag !== undefined;
  }
}

interface Pending {
  job: Job;
  sent: boolean;
  since: number;
  stopping: boolean;
  print: (text: string) => void;
  end: (ended: Ended<Ran & Report>) => void;
}

export class Python {
  readonly #options: Options;
  #seat: Seat | undefined;
  #spare: Seat | undefined;
  #pending: Pending | undefined;
  #lastId = 0;
  #patience: ReturnType<typeof setTimeout> | undefined;
  #idle: ReturnType<typeof setTimeout> | undefined;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Begins to load, where that has not begun or did not work out. */
  start(): void {
    if (this.#seat) return;
    this.#seat = this.#spare ?? this.#open();
    this.#spare = undefined;
    this.#show();
    if (this.#seat.status.phase === "ready") this.#goOn();
  }

  run(code: string, print: (text: string) => void): Promise<Ended<Ran>> {
    return this.#submit({ kind: "run", id: ++this.#lastId, code }, print);
  }

  /** `seed` chooses the inputs that the functions are tried on. */
  judge(code: string, files: Record<string, string>, seed: number, print: (text: string) => void): Promise<Ended<Report>> {
    return this.#submit({ kind: "judge", id: ++this.#lastId, code, files, seed }, print);
  }

  /** Ends the job at once, or within a second: by an interrupt first, then with the worker. */
  stop(): void {
    const pending = this.#pending;
    if (!pending) return;
    if (!pending.sent) return this.#end({ kind: "stopped", restarts: false });
    if (!this.#seat?.interrupt()) return this.#replace();
    pending.stopping = true;
    clearTimeout(this.#patience);
    this.#patience = setTimeout(() => this.#replace(), PATIENCE_MS);
  }

  /** Ends every worker. */
  close(): void {
    clearTimeout(this.#patience);
    clearTimeout(this.#idle);
    this.#seat?.port.terminate();
    this.#spare?.port.terminate();
    this.#seat = this.#spare = undefined;
  }

  #open(): Seat {
    return new Seat(this.#options, (seat, message) => this.#hear(seat, message));
  }

  #submit<T>(job: Job, print: (text: string) => void): Promise<Ended<T>> {
    if (this.#pending) throw new Error("One job at a time.");
    return new Promise((resolve) => {
      this.#pending = { job, sent: false, since: 0, stopping: false, print, end: resolve as Pending["end"] };
      this.start();
      this.#goOn();
    });
  }

  /** Sends the job that waits, or gets a spare ready. */
  #goOn(): void {
    const [seat, pending] = [this.#seat, this.#pending];
    if (seat?.status.phase !== "ready") return;
    if (pending && !pending.sent) {
      pending.sent = true;
      pending.since = performance.now();
      seat.send(pending.job);
    }
    clearTimeout(this.#idle);
    if (!pending && !this.#spare && this.#options.roomy) this.#idle = setTimeout(() => (this.#spare ??= this.#open()), IDLE_MS);
  }

  #end(ended: Ended<Ran & Report>): void {
    const pending = this.#pending;
    clearTimeout(this.#patience);
    this.#pending = undefined;
    pending?.end(ended);
    this.#goOn();
  }

  /** Ends the worker with its job, and goes on with the spare or a new one. */
  #replace(): void {
    this.#seat?.port.terminate();
    this.#seat = undefined;
    const restarts = this.#spare?.status.phase !== "ready";
    this.start();
    this.#end({ kind: "stopped", restarts });
  }

  #show(): void {
    this.#options.hear(this.#seat?.status ?? { phase: "off", share: 0, what: "" });
  }

  #hear(seat: Seat, message: FromWorker): void {
    if (seat !== this.#seat && seat !== this.#spare) return;
    const pending = this.#pending;
    if (message.kind === "broken") return this.#broken(seat, message.what);
    if (message.kind === "progress") seat.status = { phase: "loading", share: Math.max(seat.status.share, message.share), what: message.what };
    else if (message.kind === "ready") seat.status = { phase: "ready", share: 1, what: "" };
    else if (message.id !== pending?.job.id) return;
    else if (message.kind === "output") return pending.print(message.text);
    else if (message.kind === "interrupted" || pending.stopping) return this.#end({ kind: "stopped", restarts: false });
    else return this.#end({ kind: "done", result: message.result as Ran & Report, seconds: (performance.now() - pending.since) / 1000 });
    if (seat !== this.#seat) return;
    this.#show();
    this.#goOn();
  }

  #broken(seat: Seat, what: string): void {
    seat.port.terminate();
    if (seat === this.#spare) {
      this.#spare = undefined;
      return;
    }
    const loaded = seat.status.phase === "ready";
    this.#seat = undefined;
    if (loaded) this.start();
    else this.#options.hear({ phase: "failed", share: 0, what });
    this.#end({ kind: "failed", what, restarts: loaded });
  }
}

/** Python for a page: its files lie in `pyodide/` beside the page. */
export function pagePython(hear: (status: Status) => void): Python {
  const memory = (navigator as { deviceMemory?: number }).deviceMemory ?? 8; // GiB; some browsers don't say
  return new Python({
    base: new URL("./pyodide/", document.baseURI).href,
    open: () => new Worker(new URL("./worker.ts", import.meta.url), { type: "module" }),
    isolated: globalThis.crossOriginIsolated === true,
    roomy: memory >= 4,
    hear,
  });
}
