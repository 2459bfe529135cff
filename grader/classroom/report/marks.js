const rows = [...document.querySelectorAll(".sortable")].map(table => [...table.tBodies[0].rows]);
offerSearch(rows[0].map(row => [...row.cells].slice(0, 3).map(cell => cell.textContent).join(" ")), rows);
