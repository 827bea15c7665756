"""Chunks, vectors, collections and retrievers: the only room that names Ollama or Qdrant."""
