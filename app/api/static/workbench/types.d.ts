/** Records of the public API, for the type checker only; browsers never load this file. */

/** Null where the value is missing. */
export type Value = number | string | boolean | null;
export type Applicant = Record<string, Value>;

export interface Feature {
  name: string;
  type: string;
  label: string;
  unit: string | null;
  min: number | null;
  max: number | null;
  step: number | null;
  decimals: number | null;
  categories: (string | boolean)[] | null;
  level_names: Record<string, string>;
  change: string;
  /** Whether the value may be missing. */
  missing: boolean;
  /** Codes that are states and not quantities, with what they mean. */
  special: Record<string, string>;
  /** How it follows from other features. */
  derived: string | null;
  protected: boolean;
  /** How far time moves it by itself in a year. */
  moves_with_time: number | null;
  /** What advice may propose, where that is less than a record may hold. */
  advice: { min: number | null; max: number | null; categories: string[] | null };
  /** Cost of providing a missing value; null where that is no advice. */
  provide_cost: number | null;
  takes: { months: number; months_per_unit: number; months_per_level: number };
  max_change: { relative: number | null; absolute: number | null } | null;
  least_change: number | null;
}

/** What the person rules out (a change, or all changes of a feature) or will do anyway. */
export interface Wish {
  kind: "feature" | "change" | "must";
  feature: string;
  from?: Value;
  to?: Value;
}

export interface Model {
  id: string;
  version: string;
  title: string;
  description: string | null;
  active: boolean;
  registered_at: string;
  output: string;
  threshold: number | null;
  better: "higher" | "lower" | null;
  futures: Futures;
}

export interface Futures {
  status: "none" | "pending" | "ready" | "failed";
  source: string | null;
  search: number | null;
  held_back: number | null;
  agreement: number | null;
  labels: string | null;
  stress: { column: string; direction: "up" | "down" }[] | null;
  dropped: number | null;
  created_at: string | null;
  detail: string | null;
}

/** Share of the held-back future models that say yes. */
export interface FutureCertificate {
  probability: number;
  interval: [number, number];
  models: number;
  source: string;
  records: "fresh" | "same" | null;
  asked: number | null;
  /** Where earlier versions kept fewer promises than their answers said. */
  promise: string;
  measured?: { share: number; promises: number; retrainings: number } | null;
  /** What models trained later kept of answers like this one at earlier dates. */
  kept_before?: { share: number; interval: [number, number]; promises: number; months: number } | null;
  /** How far applicants may change, over all stresses. */
  stressed?: Stressed | null;
}

export interface Stressed {
  column: string;
  direction: "up" | "down";
  lowest: number;
  interval: [number, number];
  strength: number;
  holds_up_to: number | null;
  /** From strength 0, which is the plain share. */
  curve: { strength: number; share: number }[];
  models: number;
}

export interface Method {
  name: string;
  summary: string;
  reference: string;
  yields: string;
  knobs: string[];
  robust_when: Record<string, "larger" | "smaller">;
  parameters: { properties: Record<string, any> };
}

export interface Job {
  id: string;
  kind: string;
  status: string;
  created_at: string;
  progress: { done: number; total: number };
  error: any;
  result: string | null;
}

/** What a file of applicants holds. */
export interface FileRecords {
  rows: { reference?: string; applicant: Applicant }[];
  /** The line of each row, as an editor numbers it. */
  lines: number[];
  /** Values that do not fit. */
  faults: { line: number; text: string }[];
  /** Names of columns that are no features. */
  unused: string[];
}

/** A constraint whose removal helps. */
export interface Relaxation {
  constraint: string;
  feature: string | null;
  sufficient: boolean;
}

/** A request as it was sent, so that it can be sent again. */
export interface Asked {
  body: any;
  background: boolean;
}

export interface Curve {
  points: any[];
  parameter: string;
  factual: any;
  chosen: number;
}
