// Moves the capacity slider `moves` times by key and returns, for each move, the milliseconds from the key
// press to the end of the frame that shows the new picture. Each move waits for its picture.
async (moves) => {
  const handle = document.querySelector(".noUi-handle");
  const picture = document.querySelector(".widget-html-content:has(svg)");
  handle.scrollIntoView({ block: "start" });
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const frameShown = () =>
    new Promise((resolve) =>
      requestAnimationFrame(() => {
        const channel = new MessageChannel(); // its message comes after the frame's layout and paint
        channel.port1.onmessage = () => resolve(performance.now());
        channel.port2.postMessage(null);
      }),
    );
  const samples = [];
  for (let move = 0; move < moves; move++) {
    await pause(50);
    const changed = new Promise((resolve) => {
      const observer = new MutationObserver(() => {
        observer.disconnect();
        resolve();
      });
      observer.observe(picture, { childList: true, subtree: true, characterData: true });
    });
    const key = Math.floor(move / 5) % 2 ? "ArrowLeft" : "ArrowRight";
    const start = performance.now();
    handle.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    await changed;
    samples.push((await frameShown()) - start);
  }
  return samples;
};
