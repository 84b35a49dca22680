/** The functions of TensorFlow's C API that the binding of @tensorflow/tfjs-node-gpu 4.22 calls, by `nm -D`. */
export const neededSymbols: readonly string[] = [
  ...[
    "ContextListDevices DeleteContext DeleteContextOptions DeleteOp DeleteTensorHandle Execute NewContext",
    "NewContextOptions NewOp NewTensorHandle OpAddInput OpSetAttrBool OpSetAttrBoolList OpSetAttrFloat",
    "OpSetAttrFloatList OpSetAttrInt OpSetAttrIntList OpSetAttrShape OpSetAttrString OpSetAttrType",
    "TensorHandleCopyToDevice TensorHandleDataType TensorHandleDim TensorHandleNumDims TensorHandleResolve",
  ].flatMap((line) => line.split(" ").map((name) => `TFE_${name}`)),
  ...[
    "AllocateTensor DataTypeSize DeleteBuffer DeleteDeviceList DeleteGraph DeleteSession DeleteSessionOptions",
    "DeleteStatus DeleteTensor DeviceListCount DeviceListName DeviceListType Dim GetCode GraphOperationByName",
    "LoadSessionFromSavedModel Message NewBuffer NewBufferFromString NewGraph NewSessionOptions NewStatus",
    "NewTensor NumDims SessionRun TensorByteSize TensorData TensorElementCount TensorType Version",
  ].flatMap((line) => line.split(" ").map((name) => `TF_${name}`)),
];
