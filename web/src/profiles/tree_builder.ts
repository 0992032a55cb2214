// TreeBuilder: puts nodes of several trees, or of one seen otherwise, into one. Pure.
import type { FlameFrame } from "../api/views.ts";

/** Profiles know functions by numbers of their own: what is equal in two of them. */
export function frameKey(frame: FlameFrame): string {
  return `${frame.function}\n${frame.file}\n${frame.module}`;
}

export class TreeBuilder {
  readonly frames: FlameFrame[] = [];
  readonly parent: number[] = [];
  readonly frame: number[] = [];
  private frameNumbers = new Map<string, number>();
  private nodes = new Map<number, Map<number, number>>(); // by parent, by frame

  frameNumber(frame: FlameFrame): number {
    const key = frameKey(frame);
    const known = this.frameNumbers.get(key);
    if (known !== undefined) return known;
    this.frameNumbers.set(key, this.frames.length);
    return this.frames.push(frame) - 1;
  }

  /** The node of that function below `parent`, or, with −1, outermost. */
  nodeBelow(parent: number, frame: number): number {
    let below = this.nodes.get(parent);
    if (!below) this.nodes.set(parent, (below = new Map()));
    const known = below.get(frame);
    if (known !== undefined) return known;
    this.frame.push(frame);
    const node = this.parent.push(parent) - 1;
    below.set(frame, node);
    return node;
  }
}
