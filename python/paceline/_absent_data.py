"""Names of Ray Data's that Paceline does not have, with what to use instead: rows of _absent."""

from typing import Dict

_SETTINGS = """
    accurate_map_phase_timing actor_init_max_retries actor_init_retry_on_errors actor_prefetcher_enabled
    actor_task_retry_on_errors arrow_fixed_shape_tensor_format autoscaling_config batch_to_block_arrow_format
    checkpoint_config custom_execution_callback_classes dataset_logger_id decoding_size_estimation
    default_hash_shuffle_parallelism default_map_logical_memory_enabled delta_config
    downstream_capacity_backpressure_ratio enable_arrow_backed_pandas_conversion enable_auto_log_stats
    enable_dynamic_output_queue_size_backpressure enable_fallback_to_arrow_object_ext_type
    enable_get_object_locations_for_metrics enable_lineage_reconstruction_resource_accounting
    enable_operator_progress_bars enable_pandas_block enable_per_node_metrics enable_progress_bar_name_truncation
    enable_progress_bars enable_ray_data_reconstruction enable_rich_progress_bars enable_stats_summary_collection
    enable_tensor_extension_casting enforce_schemas execution_callback_classes execution_no_progress_timeout_s
    gpu_shuffle_num_actors gpu_shuffle_rmm_pool_size gpu_shuffle_setup_timeout_s gpu_shuffle_spill_memory_limit
    hash_aggregate_operator_actor_num_cpus_override hash_shuffle_aggregator_health_warning_interval_s
    hash_shuffle_compression hash_shuffle_operator_actor_num_cpus_override hash_shuffle_reduce_batch_size
    hash_shuffle_reduce_get_timeout_s iceberg_config isolate_read_workers issue_detectors_config
    join_operator_actor_num_cpus_override lance_config large_args_threshold log_internal_stack_trace
    max_consecutive_actor_init_deaths max_hash_shuffle_aggregators
    max_hash_shuffle_finalization_batch_size max_map_retries max_tasks_in_flight_per_actor
    memory_usage_poll_interval_s min_hash_shuffle_aggregator_wait_time_in_s min_parallelism
    object_store_memory_pressure_fraction object_store_reservation_overshoot_ratio op_resource_reservation_enabled
    op_resource_reservation_ratio output_backpressure_guard_release_interval_s
    override_object_store_memory_limit_fraction pandas_block_ignore_metadata per_stage_map_timing
    pipeline_push_based_shuffle_reduce_tasks print_on_execution_start raise_original_map_exception
    read_op_min_num_blocks retried_io_errors retried_map_errors s3_try_create_dir scheduling_strategy
    scheduling_strategy_large_args set_dataset_logger_id shuffle_compression shuffle_input_batch_bytes
    shuffle_strategy streaming_read_buffer_size target_max_block_size target_min_block_size trace_allocations
    use_arrow_tensor_v2 use_datasource_v2 use_disk_based_hash_shuffle use_external_hash_shuffle use_legacy_dataset_ids
    use_polars use_polars_sort use_push_based_shuffle use_ray_tqdm verbose_stats_logs wait_for_min_actors_s
    warn_on_driver_memory_usage_bytes write_file_retry_on_errors"""
_PREPROCESSORS = """
    Categorizer Chain Concatenator CountVectorizer CustomKBinsDiscretizer FeatureHasher HashingVectorizer LabelEncoder
    MaxAbsScaler MinMaxScaler MultiHotEncoder Normalizer OneHotEncoder OrdinalEncoder PowerTransformer RobustScaler
    SimpleImputer StandardScaler Tokenizer TorchVisionPreprocessor UniformKBinsDiscretizer"""
_VERSIONS = "MAGIC_CLOUDPICKLE SERIALIZER_FORMAT_VERSION get_preprocessor_class_id get_version set_preprocessor_class_id set_version"

# By reason, as in _absent.
REASONS: Dict[str, str] = {
    "Paceline reads files and PyTorch's datasets; a paceline.data.Datasource of yours reads anything": """
        data.ClickHouseTableSettings data.SinkMode data.catalog data.read_audio data.read_avro data.read_clickhouse data.read_delta
        data.read_delta_sharing_tables data.read_kafka data.read_hudi data.read_iceberg data.read_lance
        data.read_lerobot data.read_mcap data.read_mongo data.read_snowflake data.read_sql data.read_unity_catalog
        data.read_videos data.read_zarr data.CatalogAccessMode data.Catalog data.ReaderFormat data.ResolvedSource
        data.DatabricksUnityCatalog data.KafkaAuthConfig data.context.IcebergConfig data.context.DeltaConfig
        data.context.LanceConfig data.datasource.Connection data.datasource.DeltaSharingDatasource
        data.datasource.LeRobotDatasource data.datasource.MCAPDatasource data.datasource.RandomIntRowDatasource
        data.datasource.TimeRange""",
    "Paceline writes files; a paceline.data.Datasink of yours writes anywhere": """
        data.datasource.TurbopufferDatasink data.datasource.DummyOutputDatasink data.Dataset.write_bigquery
        data.Dataset.write_clickhouse data.Dataset.write_delta data.Dataset.write_iceberg data.Dataset.write_kafka
        data.Dataset.write_lance data.Dataset.write_mongo data.Dataset.write_snowflake data.Dataset.write_sql
        data.Dataset.write_turbopuffer""",
    "not there yet: read_binary_files() gives the files, and map() decodes them": """
        data.read_images data.read_tfrecords data.read_webdataset data.Dataset.write_images
        data.Dataset.write_tfrecords data.Dataset.write_webdataset""",
    "use from_pandas() or from_arrow(), and to_pandas() or to_arrow_refs()": """
        data.from_daft data.from_dask data.from_mars data.from_modin data.from_spark data.Dataset.to_daft
        data.Dataset.to_dask data.Dataset.to_mars data.Dataset.to_modin data.Dataset.to_spark""",
    "use from_arrow(dataset.data.table)": "data.from_huggingface",
    "Paceline trains with PyTorch; iter_batches() gives arrays": """
        data.from_tf data.Dataset.iter_tf_batches data.Dataset.to_tf data.Dataset.iter_jax_batches
        data.DataIterator.iter_tf_batches data.DataIterator.to_tf data.DataIterator.iter_jax_batches""",
    "Paceline keeps no whole dataset, which this needs; do it once with another tool, and read what it writes": """
        data.Dataset.groupby data.Dataset.join data.Dataset.sort data.Dataset.to_random_access_dataset
        data.grouped_data data.random_access_dataset""",
    "aggregate() computes any number of values in one pass; stats() says what was read": """
        data.Dataset.summary data.DatasetSummary data.Dataset.get_stats_summary data.list_stats_summaries data.stats""",
    "Ray Data needs it inside; to_arrow_refs() and iter_batches(batch_size=None) give the blocks": """
        data.Dataset.copy data.Dataset.get_dataset_id data.Dataset.get_internal_block_refs
        data.Dataset.iter_internal_ref_bundles data.Dataset.map_batches_internal data.NodeIdStr
        data.ActorPoolStrategy.num_workers data.ActorPoolStrategy.ready_to_total_workers_ratio
        data.FileShuffleConfig.get_seed data.RandomSeedConfig.create_seed_config data.RandomSeedConfig.get_seed_tuple
        data.context.ShuffleStrategy data.context.AutoscalingConfig data.ExecutionResources.add
        data.ExecutionResources.combine data.ExecutionResources.combine_sum data.ExecutionResources.floordiv
        data.ExecutionResources.from_resource_dict data.ExecutionResources.inf data.ExecutionResources.is_non_negative
        data.ExecutionResources.is_zero data.ExecutionResources.max data.ExecutionResources.memory_str
        data.ExecutionResources.min data.ExecutionResources.object_store_memory_str
        data.ExecutionResources.satisfies_limit data.ExecutionResources.scale data.ExecutionResources.subtract
        data.ExecutionResources.to_resource_dict data.ExecutionResources.zero""",
    "get_read_tasks() is all that a Datasource has to have; filters and columns are applied to what it reads": """
        data.Datasource.apply_predicate data.Datasource.apply_projection data.Datasource.create_reader
        data.Datasource.get_current_predicate data.Datasource.get_projection_map data.Datasource.prepare_read
        data.Datasource.should_create_reader data.Datasource.supports_predicate_pushdown
        data.Datasource.supports_projection_pushdown data.datasource.Reader data.datasource.FileBasedDatasource
        data.datasource.BaseFileMetadataProvider data.datasource.DefaultFileMetadataProvider
        data.datasource.FileMetadataProvider""",
    "files are written whole: write_block_to_file() and write_row_to_file() get a stream": """
        data.Datasink.min_bytes_per_write data.BlockBasedFileDatasink.open_output_stream
        data.RowBasedFileDatasink.open_output_stream data.datasource.WriteReturnType""",
    "use partitioning='hive' and filter(), which passes over folders": """
        data.datasource.PathPartitionFilter data.datasource.PathPartitionParser
        data.datasource.Partitioning.normalized_base_dir data.datasource.Partitioning.resolved_filesystem
        data.datasource.Partitioning.to_pyarrow""",
    "an aggregate has combine(), aggregate_block() and finalize()": """
        data.aggregate.AggregateFn.output_field data.aggregate.AggregateFnV2.output_field
        data.aggregate.VectorizedAggregateFnV2 data.aggregate.Count.output_field data.aggregate.Sum.output_field
        data.aggregate.Min.output_field data.aggregate.Max.output_field data.aggregate.Mean.output_field
        data.aggregate.Std.output_field data.aggregate.AbsMax.output_field data.aggregate.ValueCounter.output_field
        data.aggregate.ApproximateQuantile.output_field data.aggregate.ApproximateQuantile.zero""",
    "ValueCounter counts exactly": "data.aggregate.ApproximateTopK",
    "blocks are pyarrow.Tables; a BlockAccessor has them in other forms": """
        data.block.Schema data.block.BlockColumn data.block.BatchColumn data.block.BlockType data.block.BatchFormat
        data.block.DataBatch data.block.DataBatchColumn data.block.CallableClass data.block.UserDefinedFunction
        data.block.BlockPartition data.block.BlockPartitionMetadata data.block.to_stats data.block.CustomOpStats
        data.block.TaskExecWorkerStats data.block.BlockExecStats data.block.BlockStats
        data.block.BlockMetadata.to_stats data.block.BlockMetadataWithSchema
        data.block.BlockAccessor.batch_to_arrow_block data.block.BlockAccessor.batch_to_block
        data.block.BlockAccessor.batch_to_pandas_block data.block.BlockAccessor.block_type
        data.block.BlockAccessor.builder data.block.BlockAccessor.count data.block.BlockAccessor.drop
        data.block.BlockAccessor.get_metadata data.block.BlockAccessor.max data.block.BlockAccessor.mean
        data.block.BlockAccessor.merge_sorted_blocks data.block.BlockAccessor.min
        data.block.BlockAccessor.random_shuffle data.block.BlockAccessor.rename_columns
        data.block.BlockAccessor.sample data.block.BlockAccessor.select data.block.BlockAccessor.slice
        data.block.BlockAccessor.sort data.block.BlockAccessor.sort_and_partition data.block.BlockAccessor.sum
        data.block.BlockAccessor.sum_of_squared_diffs_from_mean data.block.BlockAccessor.take
        data.block.BlockAccessor.to_batch_format data.block.BlockAccessor.to_default
        data.block.BlockAccessor.upsert_column data.block.BlockAccessor.zip data.block.BlockColumnAccessor
        data.extensions data.datatype""",
    "a collate_fn may give tensors in any dicts, lists and tuples": """
        data.collate_fn.TensorSequenceType data.collate_fn.TensorBatchType data.collate_fn.is_tensor_batch_type
        data.collate_fn.TensorBatchReturnType""",
    "expressions are pyarrow's: col(), lit(), and functions of pyarrow.compute; use map_batches() for what these cannot": """
        data.expressions.Operation data.expressions.Expr data.expressions.ColumnExpr data.expressions.LiteralExpr
        data.expressions.BinaryExpr data.expressions.RandomExpr data.expressions.UUIDExpr data.expressions.UnaryExpr
        data.expressions.UDFExpr data.expressions.DownloadExpr data.expressions.AliasExpr data.expressions.StarExpr
        data.expressions.UnnestExpr data.expressions.MonotonicallyIncreasingIdExpr data.expressions.pyarrow_udf
        data.expressions.udf data.expressions.download data.expressions.monotonically_increasing_id
        data.expressions.random data.expressions.star data.expressions.unnest data.expressions.uuid
        data.namespace_expressions""",
    "derive from Preprocessor": "data.preprocessor.SerializablePreprocessorBase",
    "serialize() gives bytes of cloudpickle, which have no versions": " ".join(
        ["data.preprocessor.SerializationFormat"]
        + [f"data.preprocessors.{one}.{name}" for one in _PREPROCESSORS.split() for name in _VERSIONS.split()]
    ),
    "stats_ has what fit() has learnt": " ".join(
        ["data.Preprocessor.stat_computation_plan", "data.preprocessors.OneHotEncoder.safe_get"]
        + [f"data.preprocessors.{one}.stat_computation_plan" for one in _PREPROCESSORS.split()]
    ),
    "it sets Ray's executor; execution_options.resource_limits says what reading may use": " ".join(
        f"data.DataContext.{name}" for name in _SETTINGS.split()
    ),
    "Paceline trains; other libraries bring language models": "data.llm",
    "shard.state_dict() says how far reading is": "data.checkpoint",
    "Ray Data needs it inside; errors of functions are raised as they are": "data.constants data.exceptions data.util",
}
