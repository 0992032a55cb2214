"""The engine "ray": machines of a Ray cluster. Ray is an extra (`paceline[ray]`), imported by the modules here alone.

bundles.py says what is asked of Ray, connection.py is the way to a cluster, agent_actor.py runs on each node, and engine.py
holds all of it for one run. Ray gives places; the run itself is the controller's in C++, whose agents the actors start.
"""
