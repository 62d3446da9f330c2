/* Search in pages that are opened as files, where browsers start no workers: a hidden frame is one. */
"use strict";
if (location.protocol === "file:") {
  const load = (view, url) =>
    new Promise((done, failed) => {
      const script = view.document.createElement("script");
      script.src = url;
      script.onload = done;
      script.onerror = failed;
      view.document.body.append(script);
    });

  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.view = new Promise((done) => {
        frame.onload = () => {
          const view = frame.contentWindow;
          view.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          view.importScripts = (...urls) =>
            urls.reduce((before, each) => before.then(() => load(view, each)), Promise.resolve());
          load(view, url).then(() => done(view));
        };
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.view.then((view) => view.dispatchEvent(new view.MessageEvent("message", { data })));
    }
  };
}
