// The icons, drawn in a square of 16: they need no font, and take the text's colour.
import type { Icon as StateIcon } from "../runs/run_state.ts";

export type IconName =
  StateIcon | "copy" | "copied" | "down" | "search" | "left" | "sorted_up" | "sorted_down" | "close";

const PATHS: { [name in IconName]: string } = {
  check: "M3 8.5l3.2 3.2L13 4.8",
  cross: "M4 4l8 8M12 4l-8 8",
  stop: "M4.5 4.5h7v7h-7z",
  play: "M5 3.5v9l7-4.5z",
  clock: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M8 5v3.2l2.2 1.6",
  again: "M12.8 6.2A5.2 5.2 0 1 0 13 9M13 3v3.4H9.6",
  question: "M5.8 6a2.2 2.2 0 1 1 3.2 2c-.7.4-1 .8-1 1.6M8 12v.4",
  trash: "M3 4.5h10M6 4.5V3h4v1.500M4.500 4.500l.6 8.500h5.800l.6-8.500",
  warning: "M8 2.500l6 11H2zM8 6.500v3.200M8 11.500v.4",
  copy: "M5.500 5.500h7v8h-7zM3.500 10.500v-8h7",
  copied: "M3 8.5l3.2 3.2L13 4.8",
  down: "M8 2.500v8M4.500 7.200L8 10.700l3.500-3.500M3 13.500h10",
  search: "M7 2.500a4.500 4.500 0 1 0 0 9a4.500 4.500 0 1 0 0-9M10.300 10.300l3.200 3.200",
  left: "M10 3L5 8l5 5",
  sorted_up: "M4 10l4-4 4 4",
  sorted_down: "M4 6l4 4 4-4",
  close: "M4 4l8 8M12 4l-8 8",
};

const FILLED = new Set<IconName>(["play", "stop"]);

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class={FILLED.has(name) ? "icon filled" : "icon"} viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
