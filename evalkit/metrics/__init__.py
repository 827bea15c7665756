"""Pure arithmetic over rankings and judgments: ranking metrics, evidence metrics, statistics."""
