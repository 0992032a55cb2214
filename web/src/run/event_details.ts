// The details of an event in one line: "worker 3, exit code 1, error …". Pure.
import { numberText } from "../format/number.ts";

const MOST_TEXT = 300;
/** What the other columns say, or what says nothing to readers. */
const LEFT_OUT = new Set(["time", "log_file"]);

/** What says nothing: empty, or zero where a number could be. */
function isVoid(value: unknown): boolean {
  if (value === null || value === "" || value === undefined || value === 0 || value === -1 || value === false)
    return true;
  return typeof value === "object" && value !== null && Object.values(value).every(isVoid);
}

function valueText(value: unknown): string {
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : numberText(value);
  if (typeof value === "string") return value.length > MOST_TEXT ? value.slice(0, MOST_TEXT) + "…" : value;
  if (Array.isArray(value)) return value.map(valueText).join(" ");
  if (typeof value === "object" && value !== null) return `(${detailsText(value as { [name: string]: unknown })})`;
  return String(value);
}

export function detailsText(details: { [name: string]: unknown }): string {
  return Object.entries(details)
    .filter(([name, value]) => !LEFT_OUT.has(name) && !isVoid(value))
    .map(([name, value]) => `${name.replace(/_/g, " ")} ${valueText(value)}`)
    .join(", ");
}
