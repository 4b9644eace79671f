/** Offers, and the two ways a request can fail. */

/** What to show one visitor. */
export interface Offer {
  /** Identifies the offer in the answer; null for a random fallback offer. */
  readonly id: string | null;
  /** Item ids, in order. */
  readonly items: readonly string[];
  /** The release that the offer uses; 0 before the first. */
  readonly release: number;
  /** When answers stop counting (ISO 8601). */
  readonly expires: string | null;
  /** Whether the items are random because the service was down. */
  readonly fallback: boolean;
}

/** A problem document of the service (RFC 9457). */
export type Problem = Readonly<Record<string, unknown>>;

/** The service refused a request. `kind` is its type, such as `offer-expired`; `status` is HTTP's. */
export class Refused extends Error {
  readonly status: number;
  readonly kind: string;
  readonly problem: Problem;

  constructor(problem: Problem, status: number) {
    super(String(problem["detail"] || problem["title"] || `status ${status}`));
    this.name = "Refused";
    this.status = status;
    this.kind = String(problem["type"] ?? "").split(":").pop() ?? "";
    this.problem = problem;
  }
}

/** Every attempt failed: the service could not be reached, or could not write. */
export class ServiceDown extends Error {
  constructor(url: string, attempts: number, reason: unknown, check = "") {
    super(`the service at ${url} must answer, got no answer in ${attempts} attempts: ${described(reason)}${check}`);
    this.name = "ServiceDown";
  }
}

function described(reason: unknown): string {
  if (!(reason instanceof Error)) return String(reason);
  return reason.cause instanceof Error ? `${reason.message}: ${reason.cause.message}` : reason.message;
}
