"""Preprocessors: what is learnt from one dataset and done to the rows of others. They need pandas."""

from paceline import _absent
from paceline.data.preprocessors.batch_mapper import BatchMapper
from paceline.data.preprocessors.chain import Chain
from paceline.data.preprocessors.concatenator import Concatenator
from paceline.data.preprocessors.discretizer import CustomKBinsDiscretizer, UniformKBinsDiscretizer
from paceline.data.preprocessors.encoder import Categorizer, LabelEncoder, MultiHotEncoder, OneHotEncoder, OrdinalEncoder
from paceline.data.preprocessors.hasher import FeatureHasher
from paceline.data.preprocessors.imputer import SimpleImputer
from paceline.data.preprocessors.normalizer import Normalizer
from paceline.data.preprocessors.scaler import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from paceline.data.preprocessors.tokenizer import Tokenizer
from paceline.data.preprocessors.torch import TorchVisionPreprocessor
from paceline.data.preprocessors.transformer import PowerTransformer
from paceline.data.preprocessors.vectorizer import CountVectorizer, HashingVectorizer

__all__ = [
    "BatchMapper",
    "Categorizer",
    "Chain",
    "Concatenator",
    "CountVectorizer",
    "CustomKBinsDiscretizer",
    "FeatureHasher",
    "HashingVectorizer",
    "LabelEncoder",
    "MaxAbsScaler",
    "MinMaxScaler",
    "MultiHotEncoder",
    "Normalizer",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PowerTransformer",
    "RobustScaler",
    "SimpleImputer",
    "StandardScaler",
    "Tokenizer",
    "TorchVisionPreprocessor",
    "UniformKBinsDiscretizer",
]

_absent.explain(__name__)
