// The colours of boxes: of one profile by the module that they are in, of two by how their share has changed. They are
// never the only sign: the text beside the graph, and marks before names, tell the same.
import { useEffect, useState } from "preact/hooks";
import type { FlameFrame } from "../api/views.ts";

export interface FlameColors {
  text: string;
  /** Of what a search does not mean. */
  faint: string;
  background: string;
  font: string;
  ofFrame(frame: FlameFrame): string;
  /** `change`: of the share, −1 to 1 for the largest of all. */
  ofChange(change: number): string;
}

/** So that whoever reads two graphs finds the same colour for the same library. */
function hueOf(frame: FlameFrame): number {
  const key = frame.module || frame.file;
  let hash = 17;
  for (let at = 0; at < key.length; at++) hash = (hash * 31 + key.charCodeAt(at)) % 9973;
  return (20 + (hash % 24) * 15) % 360;
}

function readColors(isDark: boolean): FlameColors {
  const style = getComputedStyle(document.documentElement);
  const value = (name: string) => style.getPropertyValue(name).trim();
  return {
    text: isDark ? "#f2f4f7" : "#14181d",
    faint: value("--hover"),
    background: value("--background"),
    font: `11px ${value("--mono")}`,
    ofFrame: (frame) => {
      const isUnnamed = frame.function === "" || frame.function.startsWith("[");
      const saturation = isUnnamed ? 0 : isDark ? 34 : 62;
      return `hsl(${hueOf(frame)} ${saturation}% ${isDark ? 30 : 81}%)`;
    },
    ofChange: (change) => {
      const size = Math.sqrt(Math.min(1, Math.abs(change)));
      if (size < 0.05) return isDark ? "hsl(220 6% 26%)" : "hsl(220 10% 91%)";
      const hue = change > 0 ? 22 : 214;
      return `hsl(${hue} ${25 + 60 * size}% ${isDark ? 25 + 9 * size : 90 - 22 * size}%)`;
    },
  };
}

export function useFlameColors(): FlameColors {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const [colors, setColors] = useState(() => readColors(dark.matches));
  useEffect(() => {
    const read = () => setColors(readColors(dark.matches));
    dark.addEventListener("change", read);
    return () => dark.removeEventListener("change", read);
  }, []);
  return colors;
}
