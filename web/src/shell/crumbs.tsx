// Where a page is: the pages above it, the outermost first.
import { printable } from "../text/printable.ts";
import { runHash } from "./route.ts";

export interface Crumb {
  title: string;
  hash: string;
}

export const RUNS: Crumb = { title: "Runs", hash: "#/runs" };

/** For pages of a run. `name`: undefined while nobody knows it. */
export function runCrumbs(id: string, name: string | undefined): Crumb[] {
  return [RUNS, { title: name ?? id, hash: runHash(id) }];
}

export function Crumbs({ above }: { above: Crumb[] }) {
  return (
    <nav class="crumbs" aria-label="Where you are">
      {above.map(({ title, hash }) => (
        <a key={hash} href={hash}>
          <bdi>{printable(title)}</bdi>
        </a>
      ))}
    </nav>
  );
}
