"""Impressions and clicks joined by auction id, with members that join, leave and die."""
