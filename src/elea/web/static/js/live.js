// The live protocol elea.live.v1: this side asks for every frame, and for none while it is hidden.

import { dropToken, liveUrl, post, Refused } from "./api.js";

const CREDITS = 2;
const STALE_MS = 3000;
const FIRST_MS = 500;
const LAST_MS = 8000;

export class Live {
  /** @param {(state: string, detail: string) => void} told `live`, `paused`, `stale`, `lost`, `token` */
  constructor(told) {
    this.told = told;
    this.wants = new Map();
    this.paused = false;
    this.lastId = 0;
    this.owed = 0;
    this.seen = 0;
    this.ahead = 0;
    this.frameAt = 0;
    this.wait = FIRST_MS;
    this.socket = null;
    this.timer = 0;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    document.addEventListener("visibilitychange", () => this.pay());
    setInterval(() => this.watch(), 1000);
  }

  /** Want something from now on; the handle changes or ends that. */
  want(kind, params, show) {
    const id = ++this.lastId;
    const message = { id, kind, ...params };
    this.wants.set(id, { message, show });
    this.say({ want: message });
    return {
      change: (other) => {
        const entry = this.wants.get(id);
        if (!entry) return;
        entry.message = { id, kind, ...other };
        this.say({ want: entry.message });
      },
      drop: () => {
        if (this.wants.delete(id)) this.say({ drop: id });
      },
    };
  }

  /** What the clock of the router shows. */
  now() {
    return Date.now() / 1000 - this.ahead;
  }

  pause(paused) {
    this.paused = paused;
    if (paused) this.told("paused", "");
    else if (this.socket) this.pay();
    else this.connect();
  }

  async connect() {
    clearTimeout(this.timer);
    let ticket;
    try {
      ticket = (await post("ticket")).ticket;
    } catch (error) {
      if (error instanceof Refused && error.status === 401) return dropToken() ? this.connect() : this.told("token", error.message);
      return this.again(error.message);
    }
    const socket = new WebSocket(liveUrl(), ["elea.live.v1"]);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.socket = socket;
      socket.send(JSON.stringify({ hello: 1, ticket }));
      for (const { message } of this.wants.values()) this.say({ want: message });
      this.owed = CREDITS;
      this.pay();
    };
    socket.onmessage = (event) => this.show(event.data);
    socket.onclose = (event) => {
      if (this.socket === socket) this.socket = null;
      if (!this.paused) this.again(event.reason || "the connection was lost");
    };
  }

  again(why) {
    const wait = this.wait * (0.75 + Math.random() / 2);
    this.wait = Math.min(this.wait * 2, LAST_MS);
    this.told("lost", `${why}; next try in ${Math.ceil(wait / 1000)} s`);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), wait);
  }

  say(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  show(data) {
    const length = new DataView(data).getUint32(0, true);
    const frame = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
    this.seen = frame.s;
    this.frameAt = performance.now();
    this.ahead = Date.now() / 1000 - frame.t;
    this.wait = FIRST_MS;
    this.owed += 1;
    if (!this.paused) {
      this.told("live", "");
      for (const part of frame.p) this.wants.get(part.w)?.show(part, frame.t);
    }
    this.pay();
  }

  /** Ask for as many frames as can be shown, when the screen is ready for one. */
  pay() {
    if (this.asking || !this.owed || this.paused || document.hidden) return;
    this.asking = true;
    const ask = () => {
      this.asking = false;
      if (this.paused || document.hidden) return;
      for (; this.owed > 0; this.owed -= 1) this.say({ next: 1, seen: this.seen });
    };
    if (this.calm && this.frameAt) setTimeout(ask, 1000);
    else requestAnimationFrame(ask);
  }

  watch() {
    const silent = performance.now() - this.frameAt;
    if (this.socket && !this.paused && !document.hidden && this.frameAt && silent > STALE_MS) {
      this.told("stale", `last seen ${Math.round(silent / 1000)} s ago`);
    }
  }
}
