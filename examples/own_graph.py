"""Predict from a table of nodes and a table of edges with the scikit-learn API.

Run: python examples/own_graph.py      (some seconds; needs pandas)
"""

import pandas

import gread

# Two tables, for example from a database.
graph = gread.csbm(400, 3, homophily=0.7, degree=6, num_features=4, mean=0.3, sigma=1.0)
papers = pandas.DataFrame(graph.x.numpy(), columns=["year", "pages", "cited", "score"])
papers["topic"] = [["biology", "physics", "history"][label] for label in graph.y]
papers.loc[papers.index % 5 == 0, "topic"] = None  # to be predicted
citations = pandas.DataFrame(graph.edge_index.T.numpy(), columns=["source", "target"])

classifier = gread.GraphClassifier(settings={"epochs": 60}, class_weight="balanced")
classifier.fit(papers, "topic", edges=citations)
found = classifier.diagnosis_
print(f"{found.nodes} papers, adjusted homophily {found.adjusted_homophily:.2f}")
scores = classifier.scores()
print(f"accuracy {scores.accuracy:.1%}, macro-F1 {scores.macro_f1:.1%} on {scores.nodes} papers")

unknown = papers["topic"].isna().to_numpy()
papers.loc[unknown, "topic"] = classifier.predict()[unknown]
print(papers.loc[unknown, ["year", "topic"]].head(3))
