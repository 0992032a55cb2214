// What a run was opened with.
import { fetchConfiguration } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { RunView } from "../api/views.ts";
import { CopyButton } from "../shell/copy_button.tsx";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { Time } from "../shell/time.tsx";
import { printable } from "../text/printable.ts";

/** Of {"$number": "nan"}, as numbers that are not finite are written. */
function notFinite(value: unknown): string | undefined {
  const { $number: number } = value as { $number?: unknown };
  return typeof number === "string" ? number : undefined;
}

function valueText(value: unknown): string {
  if (typeof value === "object" && value !== null) return notFinite(value) ?? JSON.stringify(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Nested names joined by '.', as Python has them. */
function rowsOf(value: { [name: string]: unknown }, before = ""): [string, unknown][] {
  return Object.entries(value).flatMap(([name, one]): [string, unknown][] => {
    const isObject = typeof one === "object" && one !== null && !Array.isArray(one) && Object.keys(one).length > 0;
    return isObject && notFinite(one) === undefined ? rowsOf(one as { [name: string]: unknown }, `${before}${name}.`) : [[before + name, one]];
  });
}

export function Configuration({ id, run }: { id: string; run: RunView }) {
  const attempts = run.attempts.length; // another driver may have opened it
  const { data, problem, reload } = useResource(`${id} ${attempts}`, () => fetchConfiguration(id));
  if (problem) return <ProblemNotice problem={problem} onRetry={reload} />;
  if (!data) return <Loading />;
  const whole = { train_loop_config: data.train_loop_config, ...data.options };
  const rows = rowsOf(whole);
  if (Object.keys(data.options).length === 0) return <Empty title="The configuration of this run is not known: its folder is gone" />;
  return (
    <>
      <div class="toolbar">
        <span class="quiet">
          What its driver opened the run with, <Time time={data.opened} />
        </span>
        <CopyButton text={JSON.stringify(whole, null, 2)} what="the configuration as JSON" />
      </div>
      <div class="scrolls" tabIndex={0} role="group" aria-label="Configuration">
        <table class="configuration">
          <tbody>
            {rows.map(([name, value]) => (
              <tr key={name}>
                <th scope="row">{printable(name)}</th>
                <td>
                  <code>{printable(valueText(value))}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
