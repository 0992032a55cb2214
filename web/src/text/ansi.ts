// ANSI escape sequences in logs: colours and weights become styles, all others are left out. Pure.
import { printable } from "./printable.ts";

export interface Style {
  /** 0 … 15: of the terminal's palette; "#rrggbb": one of its own. */
  color?: number | string;
  background?: number | string;
  bold?: boolean;
  dim?: boolean;
  italic?: boolean;
  underline?: boolean;
  inverse?: boolean;
}

export interface Segment {
  text: string;
  style: Style;
}

// CSI … final byte; OSC … BEL or ST; other escapes of two bytes.
const ESCAPE = /\x1b(?:\[([0-9;:?<=>]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\^-~])/g;

const CUBE = [0, 95, 135, 175, 215, 255];

function hex(red: number, green: number, blue: number): string {
  return "#" + [red, green, blue].map((part) => (part & 255).toString(16).padStart(2, "0")).join("");
}

/** The colour of this number in the palette of 256. */
function paletteColor(number: number): number | string {
  if (number < 16) return number;
  if (number > 231) return hex(8 + 10 * (number - 232), 8 + 10 * (number - 232), 8 + 10 * (number - 232));
  const place = number - 16;
  const level = (divisor: number) => CUBE[Math.floor(place / divisor) % 6] ?? 0;
  return hex(level(36), level(6), level(1));
}

/** Reads "38;5;n" or "38;2;r;g;b" behind `at`; gives the colour and how many parameters it took. */
function extendedColor(parameters: number[], at: number): [number | string | undefined, number] {
  if (parameters[at + 1] === 5) return [paletteColor((parameters[at + 2] ?? 0) & 255), 2];
  if (parameters[at + 1] === 2) {
    return [hex(parameters[at + 2] ?? 0, parameters[at + 3] ?? 0, parameters[at + 4] ?? 0), 4];
  }
  return [undefined, 0];
}

function colored(style: Style, member: "color" | "background", color: number | string | undefined): Style {
  const { [member]: _, ...rest } = style;
  return color === undefined ? rest : { ...rest, [member]: color };
}

function without(style: Style, ...members: (keyof Style)[]): Style {
  return Object.fromEntries(Object.entries(style).filter(([name]) => !members.includes(name as keyof Style)));
}

function applied(style: Style, text: string): Style {
  const parameters = text.split(/[;:]/).map((one) => Number(one) || 0);
  for (let at = 0; at < parameters.length; at++) {
    const code = parameters[at] ?? 0;
    if (code === 0) style = {};
    else if (code === 1) style = { ...style, bold: true };
    else if (code === 2) style = { ...style, dim: true };
    else if (code === 3) style = { ...style, italic: true };
    else if (code === 4) style = { ...style, underline: true };
    else if (code === 7) style = { ...style, inverse: true };
    else if (code === 22) style = without(style, "bold", "dim");
    else if (code === 23) style = without(style, "italic");
    else if (code === 24) style = without(style, "underline");
    else if (code === 27) style = without(style, "inverse");
    else if (code >= 30 && code <= 37) style = { ...style, color: code - 30 };
    else if (code === 39) style = without(style, "color");
    else if (code >= 40 && code <= 47) style = { ...style, background: code - 40 };
    else if (code === 49) style = without(style, "background");
    else if (code >= 90 && code <= 97) style = { ...style, color: code - 82 };
    else if (code >= 100 && code <= 107) style = { ...style, background: code - 92 };
    else if (code === 38 || code === 48) {
      const [color, taken] = extendedColor(parameters, at);
      style = colored(style, code === 38 ? "color" : "background", color);
      at += taken;
    }
  }
  return style;
}

/** The line as a terminal shows it at last: what a carriage return has overwritten (progress bars) is gone. */
function lastWritten(line: string): string {
  const end = line.replace(/\r+$/, "");
  return end.slice(end.lastIndexOf("\r") + 1);
}

/** The segments of a line. Styles do not go on into the next: a log is read from anywhere. */
export function ansiSegments(line: string): Segment[] {
  const text = lastWritten(line);
  const segments: Segment[] = [];
  let style: Style = {};
  let from = 0;
  const push = (to: number) => {
    if (to > from) segments.push({ text: printable(text.slice(from, to)), style });
  };
  for (const match of text.matchAll(ESCAPE)) {
    push(match.index);
    from = match.index + match[0].length;
    if (match[2] === "m" && !/[?<=>]/.test(match[1] ?? "")) style = applied(style, match[1] ?? "");
  }
  push(text.length);
  return segments;
}

export function withoutAnsi(line: string): string {
  return ansiSegments(line)
    .map((segment) => segment.text)
    .join("");
}
