// useRun: a run, kept up to date by the server's news of it.
import { useEffect } from "preact/hooks";
import { fetchRun } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import { listen } from "../api/stream.ts";
import type { RunView } from "../api/views.ts";

export function useRun(id: string) {
  const resource = useResource(id, () => fetchRun(id));
  const { put } = resource;
  useEffect(() => listen(`run:${id}`, { onValue: (value) => put(value as unknown as RunView) }), [id, put]);
  return resource;
}
