// What stands in the place of content: nothing there yet, an error, or a wait.
import type { ComponentChildren } from "preact";
import type { Problem } from "../api/problem.ts";
import { Command } from "./copy_button.tsx";

/** `command`: what to do next. */
export function Empty({ title, command, children }: { title: string; command?: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <p>{children}</p>}
      {command && <Command text={command} />}
    </div>
  );
}

/** Text in which commands stand between backticks. */
function WithCommands({ text }: { text: string }) {
  return <>{text.split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</>;
}

export function ProblemNotice({ problem, onRetry }: { problem: Problem; onRetry?: () => void }) {
  return (
    <div class="notice bad" role="alert">
      <div>
        <strong>{problem.title}</strong>
        {problem.detail && <p>{problem.detail}</p>}
        {problem.hint && (
          <p class="quiet">
            <WithCommands text={problem.hint} />
          </p>
        )}
      </div>
      {onRetry && (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Loading() {
  return (
    <p class="loading" role="status">
      Loading…
    </p>
  );
}
