// What runs, metrics and logs are called comes from anybody: characters that would move, hide or reorder text are shown
// as what they are. (Markup needs nothing: text only ever becomes text nodes.)

// Control characters but tab and newline; marks that reorder text; separators that editors take for line ends.
const UNPRINTABLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

function visible(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code); // ␀ … ␟
  if (code === 0x7f) return "␡";
  return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}

export function printable(text: string): string {
  return text.replace(UNPRINTABLE, visible);
}
