// A button that copies a text: a path, a command, an error.
import { useEffect, useState } from "preact/hooks";
import { Icon } from "./icons.tsx";

const SHOWN_MS = 1500;

/** Browsers have the clipboard only for pages from this machine or by https: else a selection is copied. */
async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

export function CopyButton({ text, what }: { text: string; what: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = window.setTimeout(() => setCopied(false), SHOWN_MS);
    return () => window.clearTimeout(timer);
  }, [isCopied]);
  const onClick = () => void copy(text).then(() => setCopied(true));
  return (
    <button type="button" class="plain" aria-label={`Copy ${what}`} title={`Copy ${what}`} onClick={onClick}>
      <Icon name={isCopied ? "copied" : "copy"} />
      {isCopied && (
        <span role="status" class="for-screen-readers">
          copied
        </span>
      )}
    </button>
  );
}

/** A command to be typed in a terminal. */
export function Command({ text }: { text: string }) {
  return (
    <span class="command">
      <code>{text}</code>
      <CopyButton text={text} what="this command" />
    </span>
  );
}
