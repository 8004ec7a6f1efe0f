// "Load More" and "Load New" of a log page: they add parts to the page in place of leading to them. Without this script
// both are links. A part comes from ../log/, whose first line says which bytes it holds.
(function () {
  "use strict";
  var box = document.getElementById("log-text");
  if (!box || !window.fetch) { return; }
  var more = document.getElementById("log-more"), fresh = document.getElementById("log-new"), note = document.getElementById("log-note");
  var step = Math.max(1, Number(box.dataset.length));
  var show = {}, at = {}, busy = false;
  ["start", "end", "size"].forEach(function (name) {
    show[name] = document.getElementById("log-" + name);
    at[name] = Number(show[name].textContent);
  });

  function printable(text) {
    return text.replace(/\r\n/g, "\n").replace(/[\u0000-\u0008\u000b-\u001f]/g, function (c) {
      return String.fromCharCode(0x2400 + c.charCodeAt(0));
    }).replace(/\u007f/g, "\u2421");
  }

  function load(offset, length, done) {
    if (busy) { return; }
    busy = true;
    note.textContent = "";
    fetch("../log/?" + box.dataset.query + "&offset=" + offset + "&byteLength=" + length, { credentials: "same-origin" })
      .then(function (answer) {
        if (!answer.ok) { throw new Error("HTTP " + answer.status); }
        return answer.text();
      })
      .then(function (text) {
        var cut = text.indexOf("\n");
        var head = /^==== Bytes (\d+)-(\d+) of (\d+) of /.exec(text.slice(0, cut));
        if (!head) { throw new Error("unexpected answer"); }
        done(Number(head[1]), Number(head[2]), Number(head[3]), printable(text.slice(cut + 1)));
        Object.keys(show).forEach(function (name) { show[name].textContent = at[name]; });
      })
      .catch(function (problem) { note.textContent = "Not loaded: " + problem.message; })
      .then(function () { busy = false; });
  }

  if (more) {
    more.addEventListener("click", function (event) {
      event.preventDefault();
      var offset = Math.max(0, at.start - step);
      load(offset, at.start - offset, function (start, end, size, text) {
        if (end !== at.start) { throw new Error("the log has changed: reload the page"); }
        box.insertBefore(document.createTextNode(text), box.firstChild);
        at.start = start;
        at.size = size;
        if (start === 0) { more.hidden = true; }
      });
    });
  }

  fresh.addEventListener("click", function (event) {
    event.preventDefault();
    load(at.end, step, function (start, end, size, text) {
      if (start !== at.end) { throw new Error("the log has become shorter: reload the page"); }
      if (end === start) { note.textContent = "End of Log"; }
      box.appendChild(document.createTextNode(text));
      at.end = end;
      at.size = size;
      box.scrollTop = box.scrollHeight;
    });
  });
})();
