// The colours of charts: a canvas cannot take them from the style sheet by itself.
import { useEffect, useState } from "preact/hooks";

export interface Theme {
  text: string;
  muted: string;
  line: string;
  font: string;
  lines: string[];
  /** From cool to hot. */
  heat: string[];
}

const LINES = 8; // --line-0 … --line-7 in style/colors.css
const HEATS = 5; // --heat-0 … --heat-4 there

function readTheme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const value = (name: string) => style.getPropertyValue(name).trim();
  return {
    text: value("--text"),
    muted: value("--muted"),
    line: value("--grid"),
    font: `11px ${value("--font")}`,
    lines: Array.from({ length: LINES }, (_, number) => value(`--line-${number}`)),
    heat: Array.from({ length: HEATS }, (_, number) => value(`--heat-${number}`)),
  };
}

export function useTheme(): Theme {
  const [theme, setTheme] = useState(readTheme);
  useEffect(() => {
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const read = () => setTheme(readTheme());
    dark.addEventListener("change", read);
    return () => dark.removeEventListener("change", read);
  }, []);
  return theme;
}
