const rows = [...document.querySelectorAll(".sortable")].map(table => [...table.tBodies[0].rows]);
offerSearch(rows[0].map(row => `${row.cells[0].textContent} ${row.dataset.find}`), rows);
