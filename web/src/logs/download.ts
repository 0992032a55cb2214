// Downloads a whole log, range by range.
import { fetchLog } from "../api/api.ts";

const RANGE_BYTES = 1024 * 1024;

/** `progress` hears the share that is there. */
export async function downloadLog(id: string, stream: string, progress: (share: number) => void): Promise<void> {
  const parts: string[] = [];
  let offset = 0;
  for (;;) {
    const range = await fetchLog(id, stream, { offset, limit: RANGE_BYTES });
    parts.push(range.text);
    progress(range.size > 0 ? range.next / range.size : 1);
    if (range.next <= offset || range.next >= range.size) break;
    offset = range.next;
  }
  const address = URL.createObjectURL(new Blob(parts, { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = `${stream}.log`;
  link.click();
  URL.revokeObjectURL(address);
}
