/**
 * Feature maps: visitor features u and item features v to the vector x that utilities are linear in.
 *
 *     item    (1, v)                 concat  (1, u, v)
 *     outer   (u ⊗ v)                full    (1, v, u, u ⊗ v)
 *
 * Every block of x is `left ⊗ right` with left one of 1 and u, right one of 1 and v; item effects may follow. So x is
 * affine in the item, `x = A(u) (1, v)`, and `pull` multiplies by A(u)' without forming it.
 */

interface Block {
  readonly visitor: boolean;
  readonly item: boolean;
}

const ONE = { visitor: false, item: false };
const ITEM = { visitor: false, item: true };
const VISITOR = { visitor: true, item: false };
const PRODUCT = { visitor: true, item: true };
const MAPS = {
  item: [ONE, ITEM],
  concat: [ONE, VISITOR, ITEM],
  outer: [PRODUCT],
  full: [ONE, ITEM, VISITOR, PRODUCT],
} as const satisfies Record<string, readonly Block[]>;

export type MapName = keyof typeof MAPS;

/** One of the maps above. */
export class FeatureMap {
  private readonly blocks: readonly Block[];
  /** d, the length of x. */
  readonly dim: number;

  constructor(
    name: MapName,
    intercept: boolean,
    readonly effects: number,
    readonly visitorDim: number,
    readonly itemDim: number,
  ) {
    this.blocks = MAPS[name].filter((block) => intercept || block !== ONE);
    this.dim = this.blocks.reduce((sum, block) => sum + this.left(block) * this.right(block), effects);
  }

  /** The vector x of one item; `index` says which, by which it has its effect. */
  row(visitor: readonly number[], item: readonly number[], index: number): Float64Array {
    const x = new Float64Array(this.dim);
    let place = 0;
    for (const block of this.blocks) {
      for (let a = 0; a < this.left(block); a++) {
        for (let b = 0; b < this.right(block); b++) {
          x[place++] = (block.visitor ? visitor[a]! : 1) * (block.item ? item[b]! : 1);
        }
      }
    }
    if (index < this.effects) x[place + index] = 1;
    return x;
  }

  /** `A(u)' C`, 1 + d2 rows of k, for C with d rows of k numbers, one after the other; effects are not read. */
  pull(visitor: readonly number[], columns: Float64Array, k: number): Float64Array {
    const out = new Float64Array((1 + this.itemDim) * k);
    let row = 0;
    for (const block of this.blocks) {
      const first = block.item ? k : 0;
      const width = this.right(block) * k;
      for (let a = 0; a < this.left(block); a++, row += this.right(block)) {
        const factor = block.visitor ? visitor[a]! : 1;
        for (let place = 0; place < width; place++) out[first + place]! += factor * columns[row * k + place]!;
      }
    }
    return out;
  }

  private left(block: Block): number {
    return block.visitor ? this.visitorDim : 1;
  }

  private right(block: Block): number {
    return block.item ? this.itemDim : 1;
  }
}
