// A line of a log: its colours as spans, what was searched for marked. Text only ever becomes text nodes.
import type { CSSProperties, JSX } from "preact";
import { type Segment, type Style, ansiSegments } from "./ansi.ts";

function classOf(style: Style): string {
  const classes: string[] = [];
  if (style.bold) classes.push("ansi-bold");
  if (style.dim) classes.push("ansi-dim");
  if (style.italic) classes.push("ansi-italic");
  if (style.underline) classes.push("ansi-underline");
  if (style.inverse) classes.push("ansi-inverse");
  if (typeof style.color === "number") classes.push(`ansi-color-${style.color}`);
  if (typeof style.background === "number") classes.push(`ansi-background-${style.background}`);
  return classes.join(" ");
}

function colorsOf(style: Style): CSSProperties | undefined {
  const colors: CSSProperties = {};
  if (typeof style.color === "string") colors.color = style.color;
  if (typeof style.background === "string") colors.backgroundColor = style.background;
  return Object.keys(colors).length > 0 ? colors : undefined;
}

/** The text with each place marked where `search` stands; upper and lower case count alike. */
function marked(text: string, search: string): (string | JSX.Element)[] {
  const parts: (string | JSX.Element)[] = [];
  const lower = text.toLowerCase();
  const wanted = search.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), <mark key={at}>{text.slice(at, at + search.length)}</mark>);
    from = at + search.length;
  }
  parts.push(text.slice(from));
  return parts;
}

export function AnsiLine({ line, search = "" }: { line: string; search?: string }) {
  return (
    <>
      {ansiSegments(line).map(({ text, style }: Segment, index) => {
        const content = search ? marked(text, search) : text;
        const classes = classOf(style);
        const colors = colorsOf(style);
        if (!classes && !colors) return content;
        return (
          <span key={index} class={classes} {...(colors ? { style: colors } : {})}>
            {content}
          </span>
        );
      })}
    </>
  );
}
