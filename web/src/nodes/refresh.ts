// useRefreshed: what a request gives, asked again and again while it may change and the page is in sight.
import { useEffect } from "preact/hooks";
import { type Resource, useResource } from "../api/resource.ts";

const PAUSE_MS = 2000;

export function useRefreshed<T>(
  key: string | null,
  isLive: boolean,
  load: () => Promise<T>,
  pauseMs = PAUSE_MS,
): Resource<T> {
  const resource = useResource(key, load);
  const { reload, isLoading } = resource;
  useEffect(() => {
    if (!isLive || isLoading) return;
    const timer = window.setTimeout(function again() {
      if (!document.hidden) reload();
    }, pauseMs);
    const onShown = () => void (!document.hidden && reload());
    document.addEventListener("visibilitychange", onShown);
    return () => {
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", onShown);
    };
  }, [isLive, isLoading, reload]);
  return resource;
}
