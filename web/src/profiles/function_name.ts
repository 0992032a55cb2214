// What functions are called, in full and short enough for a box of a flame graph. Pure.
import type { FlameFrame } from "../api/views.ts";

/** "step", or where it is, when no symbol is known. */
export function functionText(frame: FlameFrame): string {
  return frame.function || `in ${frame.module || "unknown code"}`;
}

/** "train.cpp:41", "libtorch_cpu.so"; "" for nothing known. */
export function placeText(frame: FlameFrame): string {
  if (!frame.file) return frame.module;
  return frame.line > 0 ? `${frame.file}:${frame.line}` : frame.file;
}

/** Without what stands in angle and round brackets: "at::native::add<float>(at::Tensor&)" is "at::native::add". */
export function shortName(name: string): string {
  if (name.startsWith("[") || name.startsWith("<")) return name; // "[callers unknown]", "<module>", "<lambda>"
  let short = "";
  let depth = 0;
  for (let at = 0; at < name.length; at++) {
    const letter = name[at]!;
    if (name.startsWith("operator", at) && !/\w/.test(name[at - 1] ?? "")) {
      const operator = /^operator(\(\)|[^\w\s(]+)?/.exec(name.slice(at))![0];
      if (depth === 0) short += operator;
      at += operator.length - 1;
    } else if (depth === 0 && name.startsWith("(anonymous namespace)", at)) {
      at += "(anonymous namespace)".length - 1;
      if (name.startsWith("::", at + 1)) at += 2;
    } else if (depth === 0 && name.startsWith("{lambda", at)) {
      short += "lambda";
      depth++;
    } else if (letter === "<" || letter === "(" || letter === "{") depth++;
    else if (letter === ">" || letter === ")" || letter === "}") depth = Math.max(0, depth - 1);
    else if (depth === 0) short += letter;
  }
  short = short.replace(/ (const|noexcept|\[clone.*\])/g, "").replace(/(::)+/g, "::").replace(/::$/, "").trim();
  const found = /(^|\W)operator/.exec(short);
  const operator = found ? found.index + found[1]!.length : short.length;
  const lastWord = short.lastIndexOf(" ", operator - 1); // behind the type of the result
  if (lastWord >= 0) short = short.slice(lastWord + 1);
  return short || name;
}

/** Whether a search means the function: any part of its name or place, in letters of any case. */
export function matches(frame: FlameFrame, search: string): boolean {
  const text = `${functionText(frame)} ${frame.file} ${frame.module}`.toLowerCase();
  return text.includes(search.toLowerCase());
}
