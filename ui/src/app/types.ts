// Types of the server's responses: traces, recordings, and the contents of a trace.
import type { TemporaryMetric, UsualMetric } from './format';

export interface Process {
  upid: number;
  pid: number;
  name: string;
  cmdline: string;
}
export interface Loss {
  kind: string;
  upid: number;
  count: number;
  detail: string;
  incomplete: boolean;
}
export interface Trace {
  id: number;
  name: string;
  path: string | null;
  bytes: number;
  state: 'loading' | 'ready' | 'failed';
  seconds: number;
  error?: string;
  head?: string;
  /** While it is loading: bytes of the file that were read, and what is done now. */
  read?: number;
  stage?: 'reading' | 'naming' | 'summing';
  /** Bytes of names that were found for it and that its file does not have. */
  found?: number;
  first_ns?: number;
  last_ns?: number;
  dumps?: number;
  heap_graphs?: number;
  memory_dumps?: number;
  slices?: number;
  n_processes?: number;
  processes?: Process[];
  losses?: Loss[];
}
export interface Status {
  version: string;
  changes: number; // grows: of two answers the one with more is newer
  traces: Trace[];
  samples: { name: string; about: string }[];
  records: boolean;
  fleet: string;
}
export interface Target {
  pid: number;
  name: string;
  state: string;
  samples: number;
  dumps: number;
  buffer?: number;
  buffered?: number;
  rss: number;
}
export interface Recording {
  id: number;
  state: 'running' | 'stopping' | 'done' | 'empty' | 'failed' | 'discarded';
  command: string;
  target: string;
  launched: boolean;
  program: number;
  program_runs: boolean;
  elapsed_ms: number;
  duration_ms: number;
  interval: number;
  shmem: number;
  bytes: number;
  samples: number;
  lost: number;
  dumps: number;
  marks: number;
  file: string | null;
  trace: number;
  error: string | null;
  code: string | null;
  remedy: string | null;
  warnings: string[];
  targets: Target[];
}
/** Temporary ones, and their errors, where they are known. */
export type Figures = Record<UsualMetric, number> & { [m in TemporaryMetric]?: number } & {
  error: number | null;
  errors: (number | null)[];
  samples: number;
  alloc_samples: number;
};
export interface Moment extends Figures {
  ts: number;
  max: boolean;
  peak?: boolean;
  for_peak?: boolean;
}
export interface Dump extends Figures {
  ts: number;
  start: number;
  flags: number;
  trigger: string;
  interval: number;
  lost: number;
}
export interface Tracks {
  upid: number;
  pid: number;
  name: string;
  uid: number;
  began: number;
  start: number;
  ended: boolean;
  cleaned_up: boolean;
  interval: number;
  n_dumps: number; // those that were asked for; moments may hold more
  moments: Moment[];
  peak?: Moment;
  /** summed: in figures of the process */
  heaps: { heap: string; summed: boolean; lives: boolean; dumps: Dump[] }[];
  program?: string; // its own module as pages show it: the path, or what it was started as
  program_file?: string; // the path
  counters: Record<string, [number, number][]>;
  parts?: Tracks[]; // several processes as one (together.ts)
}
/** A moment named during the recording. */
export interface Named {
  ts: number;
  name: string;
}
/** A process without a native heap profile. */
export interface Other {
  upid: number;
  pid: number;
  name: string;
  counters: Record<string, [number, number][]>;
}
export interface Timeline {
  first_ns: number;
  last_ns: number;
  marks: Named[];
  processes: Tracks[];
  others: Other[];
}
export type FunctionRow = [
  name: string,
  module: string,
  self: number,
  total: number,
  count: number,
  error: number | null,
  samples: number,
  selfError: number,
  selfSamples: number,
  selfCount: number,
  callers: [name: string, share: number][],
];
export interface Functions {
  rows: number;
  total: number;
  data: FunctionRow[];
}

export interface Result {
  columns: string[];
  rows: (string | number | null)[][];
  truncated: boolean;
}
export interface Results {
  results: Result[];
  error: string | null;
  ms: number;
}
