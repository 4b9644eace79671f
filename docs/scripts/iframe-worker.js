// Lets search work where the site is opened from disk: browsers start no worker there, so a hidden frame takes its place.
// The theme looks for this name, and the plugin "offline" for that of the file.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.document.open() // so that no browser puts an empty document in its place later
      inside.document.write("<body></body>")
      inside.document.close()
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      const load = (src) =>
        new Promise((resolve, reject) => {
          const script = inside.document.createElement("script")
          Object.assign(script, { src, onload: resolve, onerror: reject })
          inside.document.body.append(script)
        })
      inside.importScripts = async (...urls) => {
        for (const each of urls) await load(each)
      }
      this.ready = load(url)
    }
    postMessage(data) {
      this.ready.then(() => {
        const inside = this.frame.contentWindow
        inside.dispatchEvent(new inside.MessageEvent("message", { data }))
      })
    }
    terminate() {
      this.frame.remove()
    }
  }
  window.Worker = window.IFrameWorker
}
