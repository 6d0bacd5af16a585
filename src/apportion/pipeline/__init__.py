"""The pipeline's rules on Arrow: records to rows of silver, rows of groups from silver and logs. No Spark, no I/O."""
