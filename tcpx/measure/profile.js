"use strict";
for (const button of document.querySelectorAll("tbody button")) {
  const nest = button.closest("tbody");
  const show = (isOpen) => {
    nest.classList.toggle("closed", !isOpen);
    button.setAttribute("aria-expanded", String(isOpen));
  };
  show(false);
  nest.querySelector("tr").addEventListener("click", () => show(nest.classList.contains("closed")));
}
