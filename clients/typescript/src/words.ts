/** What the client says: offers, and the two ways in which a request can fail. */

/** What to show one visitor. */
export interface Offer {
  /** Names the offer when the answer comes; null if the service was down and chance chose. */
  readonly id: string | null;
  /** Item ids, in order. */
  readonly items: readonly string[];
  /** How many releases the choice rests on. */
  readonly release: number;
  /** Until when an answer counts (ISO 8601). */
  readonly expires: string | null;
  /** Whether chance chose because the service was down. */
  readonly fallback: boolean;
}

/** A problem document of the service (RFC 9457). */
export type Problem = Readonly<Record<string, unknown>>;

/** The service refused; `kind` tells cases apart, such as `offer-expired`, `status` is HTTP's. */
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

/** The service could not be reached, or could not write, for as long as we tried. */
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
