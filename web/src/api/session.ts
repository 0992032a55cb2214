// What the server says of itself, and whether it wants a session that this browser does not have. One for the page.
import type { SessionInfo } from "./views.ts";

type Watcher = () => void;

class Session {
  info: SessionInfo | undefined;
  isNeeded = false;
  private watchers = new Set<Watcher>();

  take(info: SessionInfo): void {
    this.info = info;
    this.tell();
  }
  need(): void {
    if (this.isNeeded) return;
    this.isNeeded = true;
    this.tell();
  }
  watch(watcher: Watcher): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  private tell(): void {
    for (const watcher of this.watchers) watcher();
  }
}

export const session = new Session();
