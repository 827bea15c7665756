"""Does a retriever bring back the evidence the questions need, and can it tell when it has none?

Start with README.md. The rooms: `datasets` (labelled sets), `metrics` (arithmetic), `retrieval`
(chunks, vectors, collections, search), `evaluation`, `executions`, `comparison`, `plots`, `show`,
and `workbook` (notebooks through papermill, pages, the command line).
"""

__version__ = "0.1.0"
